"""Training of a small network with NumPy over mpi4py: the gradients of all processes are averaged in each step."""

import numpy
from mpi4py import MPI

LAYERS, BATCH, STEPS, RATE = (256, 512, 256, 16), 32, 40, 0.05


def forward(weights, inputs):
    """The values of each layer."""
    values = [inputs]
    for weight in weights[:-1]:
        values.append(numpy.maximum(values[-1] @ weight, 0))
    return [*values, values[-1] @ weights[-1]]


def gradients(weights, values, error):
    """Of half the mean squared error, from the last layer to the first."""
    found = []
    for weight, inputs in zip(reversed(weights), reversed(values[:-1])):
        found.append(inputs.T @ error / len(error))
        error = (error @ weight.T) * (inputs > 0)
    return found[::-1]


def main():
    world = MPI.COMM_WORLD
    shapes = list(zip(LAYERS, LAYERS[1:]))
    sizes = [rows * columns for rows, columns in shapes]
    random = numpy.random.default_rng(0)
    flat = (random.normal(size=sum(sizes)) * 0.05).astype(numpy.float32)
    teacher = random.normal(size=(LAYERS[0], LAYERS[-1])).astype(numpy.float32) / 16
    world.Bcast(flat)
    weights = [part.reshape(shape) for part, shape in zip(numpy.split(flat, numpy.cumsum(sizes)[:-1]), shapes)]
    mine = numpy.random.default_rng(1 + world.rank)
    for _ in range(STEPS):
        inputs = mine.normal(size=(BATCH, LAYERS[0])).astype(numpy.float32)
        values = forward(weights, inputs)
        error = values[-1] - inputs @ teacher
        gradient = numpy.concatenate([part.ravel() for part in gradients(weights, values, error)])
        world.Allreduce(MPI.IN_PLACE, gradient)
        flat -= RATE / world.size * gradient
    loss = world.allreduce(float((error**2).mean())) / world.size
    if world.rank == 0:
        print(f"result: {loss:.9e}")


main()
