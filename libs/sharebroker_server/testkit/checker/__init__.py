"""What Sharebroker promises, as a model that judges a history. Pure: fed with events, it knows no system."""
