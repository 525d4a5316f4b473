"""Describes an image by the mean grey of its cells."""

import images


class Algorithm:
    """One image at a time: it may be cut into ranges."""

    def setup(self, parameters):
        self.side = int(parameters["cell"])
        return True

    def process(self, inputs, data_loaders, outputs):
        image = inputs["image"].data.value
        outputs["features"].write({"value": images.means(image, self.side)})
        return True
