"""What goes wrong while a card is made."""


class EmulationError(RuntimeError):
    """It cannot be made; the text says why, and what to do."""
