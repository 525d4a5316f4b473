"""Scores features with a linear model."""

import numpy as np


class Algorithm:
    """One vector at a time; the model stays the same over all of them."""

    def setup(self, parameters):
        self.model = None
        return True

    def process(self, inputs, data_loaders, outputs):
        if inputs["model"].hasDataChanged():
            self.model = inputs["model"].data
        model = self.model
        vector = (inputs["features"].data.value - model.mean) / model.scale
        scores = model.weights @ vector + model.bias
        digit = int(model.classes[np.argmax(scores)])
        outputs["prediction"].write({"value": np.int32(digit), "scores": scores})
        return True
