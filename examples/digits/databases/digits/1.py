"""Handwritten digits: the 1,797 images of 8 by 8 pixels that come with scikit-learn.

They are in the environment: the database's own folder holds only a note of their source, and is not
read. The parameter `digits` keeps the images of the digits below it.
"""

from collections import namedtuple

from beat.backend.python.database import View
from sklearn.datasets import load_digits

Entry = namedtuple("Entry", ["image", "label"])


class Digits(View):
    """Every image with the digit that it shows; each is a data unit of its own."""

    def index(self, root_folder, parameters):
        wanted = load_digits().target < int(parameters.get("digits", 10))
        return [Entry(int(row), int(row)) for row in wanted.nonzero()[0]]

    def setup(self, root_folder, outputs, parameters, *more):
        super().setup(root_folder, outputs, parameters, *more)
        self.data = load_digits()
        return True

    def get(self, output, index):
        row = getattr(self.objs[index], output)
        if output == "image":
            return {"value": self.data.images[row].astype("uint8")}
        return {"value": int(self.data.target[row])}
