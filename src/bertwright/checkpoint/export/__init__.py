"""ONNX and OpenVINO graphs: the same weights behind a padded signature."""
