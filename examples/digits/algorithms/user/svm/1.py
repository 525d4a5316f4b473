"""Learns a linear support vector machine from the part of the data that is there to learn from."""

import numpy as np
from sklearn.svm import LinearSVC


class Algorithm:
    """Sees all data at once, and writes one model that holds for all of them."""

    def setup(self, parameters):
        self.c = float(parameters["c"])
        return True

    def process(self, data_loaders, outputs):
        loader = data_loaders.loaderOf("features")
        units = [loader[i] for i in range(loader.count())]
        train = [data for data, _, _ in units if data["part"].train]
        if not train:
            raise ValueError("no image is in the part to learn from")
        features = np.array([data["features"].value for data in train])
        labels = np.array([data["label"].value for data in train])
        outputs["model"].write(self.learnt(features, labels), units[-1][2])
        print(f"learnt from {len(train)} images with {features.shape[1]} features")
        return True

    def learnt(self, features, labels):
        """Return the linear model."""
        mean, scale = features.mean(axis=0), features.std(axis=0)
        scale[scale == 0] = 1.0
        fitted = LinearSVC(C=self.c, dual=True, max_iter=20000, random_state=0)
        fitted.fit((features - mean) / scale, labels)
        return {
            "classes": fitted.classes_.astype(np.int32),
            "mean": mean,
            "scale": scale,
            "weights": fitted.coef_,
            "bias": fitted.intercept_,
        }
