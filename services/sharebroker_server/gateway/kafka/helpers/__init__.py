"""What several API handlers share."""
