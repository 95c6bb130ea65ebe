"""Devices: what runs a kernel, or predicts how it would run."""

from labkit.device.device import Device, Failure
from labkit.device.open import Choice, Opening, available_devices, device_label, open_device, resolve_device

__all__ = ["Choice", "Device", "Failure", "Opening", "available_devices", "device_label", "open_device", "resolve_device"]
