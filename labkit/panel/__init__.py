"""The live panel: controls, a moving strip, and the session that runs what they ask for."""
