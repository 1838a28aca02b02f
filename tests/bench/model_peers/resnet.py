"""ResNet-18 on random images of CIFAR-10's shape: sgd with Nesterov momentum. Unlike giro's sample, the peers neither
augment the images nor average the weights."""

SIZES = {"batch": 32, "features": 64}
ITEMS = "images"
# With the sample's own rate the first losses would depend on the initial weights.
RATE, MOMENTUM, DECAY, CLASSES = 1e-3, 0.9, 5e-4, 10


def items(sizes):
    return sizes.batch


def giro(sizes, steps, folder):
    return ["--evaluate-every=0", "--checkpoint-every=0", f"--learning-rate={RATE}", *(f"--{name}={size}" for name, size in vars(sizes).items())]


def images_of(sizes):
    import numpy as np

    engine = np.random.default_rng(1)
    count = 32 * sizes.batch
    images = engine.integers(0, 256, (count, 32, 32, 3), np.uint8).reshape(-1, sizes.batch, 32, 32, 3)
    return images, engine.integers(0, CLASSES, (len(images), sizes.batch))


def torch_training(sizes, compiled):
    import torch
    from torch import nn

    class Convolution(nn.Sequential):
        def __init__(self, inputs, outputs, size, stride):
            super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first, self.second = Convolution(inputs, outputs, 3, stride), Convolution(outputs, outputs, 3, 1)
            fits = stride == 1 and inputs == outputs
            self.shortcut = nn.Identity() if fits else Convolution(inputs, outputs, 1, stride)

        def forward(self, x):
            return nn.functional.relu(self.second(nn.functional.relu(self.first(x))) + self.shortcut(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [sizes.features << stage for stage in range(4)]
            blocks, inputs = [], widths[0]
            for stage, width in enumerate(widths):
                blocks += [Block(inputs, width, 1 if stage == 0 else 2), Block(width, width, 1)]
                inputs = width
            self.body = nn.Sequential(Convolution(3, widths[0], 3, 1), nn.ReLU(), *blocks)
            self.out = nn.Linear(inputs, CLASSES)

        def forward(self, images, labels):
            x = (images.float().permute(0, 3, 1, 2) - 120) / 64
            return nn.functional.cross_entropy(self.out(self.body(x).mean((2, 3))), labels)

    model = ResNet().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, nesterov=True, weight_decay=DECAY, fused=True)
    loss_of = compiled(model)
    images, labels = (torch.from_numpy(array) for array in images_of(sizes))

    return lambda number: loss_of(images[number % len(images)], labels[number % len(images)]), optimizer


def jax_step(sizes):
    import jax
    import jax.numpy as jnp
    import optax

    keys = iter(jax.random.split(jax.random.key(0), 21))

    def convolution(inputs, outputs, size):
        scale = (2 / (size * size * inputs)) ** 0.5
        return ({"kernel": scale * jax.random.normal(next(keys), (size, size, inputs, outputs)),
                 "scale": jnp.ones(outputs), "bias": jnp.zeros(outputs)},
                {"mean": jnp.zeros(outputs), "var": jnp.ones(outputs)})

    widths = [sizes.features << stage for stage in range(4)]
    shapes, inputs = [(3, widths[0], 3, 1)], widths[0]
    for stage, width in enumerate(widths):
        stride = 1 if stage == 0 else 2
        for block in range(2):
            shapes += [(inputs, width, 3, stride if block == 0 else 1), (width, width, 3, 1)]
            if inputs != width:
                shapes.append((inputs, width, 1, stride))
            inputs = width
    layers, statistics = zip(*(convolution(*shape[:3]) for shape in shapes))
    parameters = {"layers": layers, "kernel": jax.random.normal(next(keys), (inputs, CLASSES)) / inputs**0.5,
                  "bias": jnp.zeros(CLASSES)}

    def loss_of(parameters, statistics, images, labels):
        averaged = []

        def apply(x, index):
            of, stride = parameters["layers"][index], shapes[index][3]
            y = jax.lax.conv_general_dilated(x, of["kernel"], (stride, stride), "SAME",
                                             dimension_numbers=("NHWC", "HWIO", "NHWC"))
            mean = y.mean((0, 1, 2))
            var = jnp.square(y - mean).mean((0, 1, 2))
            averaged.append({name: 0.9 * statistics[index][name] + 0.1 * new
                             for name, new in (("mean", mean), ("var", var))})
            return (y - mean) * jax.lax.rsqrt(var + 1e-5) * of["scale"] + of["bias"]

        x = jax.nn.relu(apply((images.astype(jnp.float32) - 120) / 64, 0))
        index = 1
        while index < len(shapes):
            y = apply(jax.nn.relu(apply(x, index)), index + 1)
            index += 2
            if x.shape != y.shape:
                x = apply(x, index)
                index += 1
            x = jax.nn.relu(x + y)
        logits = x.mean((1, 2)) @ parameters["kernel"] + parameters["bias"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), averaged

    optimizer = optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(RATE, MOMENTUM, nesterov=True))

    def update(state, images, labels):
        parameters, statistics, moments = state
        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, statistics, images, labels)
        updates, moments = optimizer.update(gradients, moments, parameters)
        return (optax.apply_updates(parameters, updates), statistics, moments), loss

    update = jax.jit(update, donate_argnums=0)
    state = parameters, list(statistics), optimizer.init(parameters)
    images, labels = images_of(sizes)

    def step(number):
        nonlocal state
        state, loss = update(state, images[number % len(images)], labels[number % len(images)])
        return loss

    return step
