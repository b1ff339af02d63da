"""Real models while they read real texts, and what is measured on their keys and values."""
