"""ShareFetch and ShareAcknowledge: share sessions over several leaders."""
