"""Divides labelled data into a part to learn from and a part to test with."""

import numpy as np


class Algorithm:
    """Chooses at random, the same share of every digit, always alike for one seed."""

    def setup(self, parameters):
        self.fraction = float(parameters["test_fraction"])
        self.seed = int(parameters["seed"])
        return True

    def process(self, data_loaders, outputs):
        loader = data_loaders.loaderOf("label")
        units = [loader[i] for i in range(loader.count())]
        labels = np.array([data["label"].value for data, _, _ in units])
        test = self.chosen(labels)
        for (_, _, end), tested in zip(units, test, strict=True):
            outputs["part"].write({"train": bool(not tested)}, end)
        print(f"{int(test.sum())} of {len(labels)} images are kept for the test")
        return True

    def chosen(self, labels):
        """Return which are kept for the test."""
        random = np.random.default_rng(self.seed)
        test = np.zeros(len(labels), dtype=bool)
        for label in np.unique(labels):
            rows = random.permutation(np.flatnonzero(labels == label))
            test[rows[: round(self.fraction * len(rows))]] = True
        return test
