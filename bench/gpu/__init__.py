"""What bench cuda measures, in parts."""
