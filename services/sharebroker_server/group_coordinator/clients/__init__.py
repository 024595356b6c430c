"""Clients of the group coordinator: leaders and other group coordinators."""
