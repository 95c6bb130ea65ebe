"""What shall happen: ops, what they cost, the handles that stand for them, and the steps that ask for them."""

from labkit.schedule.cost import Cost
from labkit.schedule.elsewhere import Elsewhere
from labkit.schedule.handle import Handle, Status
from labkit.schedule.op import HOST, ROLES, Lane, Op
from labkit.schedule.requests import Answer, Request
from labkit.schedule.steps import Budget, Step, Steps

__all__ = ["HOST", "ROLES", "Answer", "Budget", "Cost", "Elsewhere", "Handle", "Lane", "Op", "Request", "Status", "Step", "Steps"]
