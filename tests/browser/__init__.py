"""The project in a real JupyterLab in a real browser; a package, so that its fixtures end with the last of its tests."""
