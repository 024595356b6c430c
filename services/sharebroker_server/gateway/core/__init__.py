"""The pure rules of the gateway: sessions, credit, planning, validation."""
