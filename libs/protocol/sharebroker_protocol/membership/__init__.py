"""Membership of a share group, seen from the member. Pure rules; a background task drives them."""
