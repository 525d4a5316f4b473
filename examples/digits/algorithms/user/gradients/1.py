"""Describes an image by the directions of its edges, cell by cell."""

import images


class Algorithm:
    """One image at a time: it may be cut into ranges."""

    def setup(self, parameters):
        self.side = int(parameters["cell"])
        self.bins = int(parameters["directions"])
        return True

    def process(self, inputs, data_loaders, outputs):
        image = inputs["image"].data.value
        outputs["features"].write({"value": images.directions(image, self.side, self.bins)})
        return True
