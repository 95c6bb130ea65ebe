"""Everything that labkit raises on purpose, as one tree. The lowest layer: imports nothing.

    LabkitError
    ├── KnobError              an unknown knob, a wrong type, a value out of range
    ├── DeviceError            the device cannot do this
    │   ├── NoSuchDevice       there is no such device here
    │   └── NotEnoughThreads   the lanes ask for more cores than this process may use
    ├── MachineError           a machine file is missing, unreadable or incomplete
    ├── ContractError          a kernel broke the rules of the three verbs
    ├── OpFailed               the op raised
    │   ├── OpSkipped          something it depended on did not succeed
    │   └── OpCancelled        the run was cancelled before it could start
    ├── DataError              a data set is missing, empty or unreadable
    │   └── BrokenImage        one image cannot be decoded
    ├── TraceError             a trace is malformed, or not of a version that can be read
    ├── StoreError             a run cannot be written or read
    ├── ExperimentError        no such experiment, or its description is wrong
    ├── AlertError             an alerts file cannot be read, or a rule in it is wrong
    ├── RunFailed              a run or a notebook that was needed did not succeed
    └── WorkerDied             the worker process ended before the run did

A message says what is wrong, which value, what is allowed, and what to do.
"""


class LabkitError(Exception):
    """The root: catch this to catch all of labkit's own errors and nothing else."""


class KnobError(LabkitError):
    """A knob that does not exist, or a value that it cannot take."""


class DeviceError(LabkitError):
    """A device was asked for something it cannot do."""


class NoSuchDevice(DeviceError):
    """The device asked for is not here; the message names those that are."""


class NotEnoughThreads(DeviceError):
    """The lanes' thread shares exceed the cores this process may use."""


class OutOfDeviceMemory(DeviceError):
    """An op needs more device memory at once than the device has."""


class MachineError(LabkitError):
    """A machine description is missing, malformed, or lacks a figure that is needed."""


class ContractError(LabkitError):
    """A kernel broke a rule of the device contract (a bug in the kernel, never in the user's input)."""


class OpFailed(LabkitError):
    """An op raised. `cause` is the op's own exception, also chained as `__cause__`."""

    def __init__(self, message: str, cause: BaseException | None = None):
        super().__init__(message)
        self.cause = cause
        self.__cause__ = cause


class OpSkipped(OpFailed):
    """An op never ran, because something it depended on failed, was skipped or was cancelled."""


class OpCancelled(OpFailed):
    """An op never ran, because the run was cancelled first."""


class DataError(LabkitError):
    """A data set is missing, empty, unreadable, or has an unexpected form."""


class BrokenImage(DataError):
    """One image cannot be decoded. `path` is the file, `reason` what the decoder said."""

    def __init__(self, path: str, reason: str):
        super().__init__(f"cannot decode {path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self):
        return type(self), (self.path, self.reason)


class TraceError(LabkitError):
    """A trace is malformed, or its version is not known."""


class StoreError(LabkitError):
    """A run cannot be written to its folder, or read back from it."""


class ExperimentError(LabkitError):
    """There is no such experiment, or its description is inconsistent."""


class AlertError(LabkitError):
    """A file of alert rules is missing or malformed, or a rule asks for what there is not."""


class RunFailed(LabkitError):
    """A run or a notebook that was needed did not succeed; the message says which, and why."""


class WorkerDied(LabkitError):
    """The worker process ended before the run did; the message says how."""
