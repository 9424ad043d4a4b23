from private_topk.transforms.mechanisms import *
from private_topk.transforms.mechanisms.joint import Joint
from private_topk.transforms.mechanisms.fast_joint import FastJoint
from tests.transforms.mechanisms.contract import Contract
from fractions import Fraction


class TestJoint(Contract):
    mechanisms = [
        Joint(1.0),
        Joint(0.5, skew=Fraction(5, 9)),
        Joint(1, skew=0.75, noise="exponential", neighbours="swap"),
        Joint(1, noise="exponential"),
        FastJoint(1.0),
        FastJoint(1.0, neighbours="swap"),
    ]
