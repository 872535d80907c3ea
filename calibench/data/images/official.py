"""The official files of the datasets: names and checksums are torchvision's where it has them."""

from __future__ import annotations

from calibench.data.source import Source

# md5 of the files as torchvision 0.21 to 0.29 lists them; a test compares.
_CIFAR10_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
    "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}
_CIFAR100_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
_SVHN_MD5 = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
_MNIST_MD5 = {
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}

# The archives' md5 as their Zenodo pages say; the files' as two independent loaders list them.
_CIFAR10_C_MD5 = {
    "brightness.npy": "0a81ef75e0b523c3383219c330a85d48",
    "contrast.npy": "3c8262171c51307f916c30a3308235a8",
    "defocus_blur.npy": "7d1322666342a0702b1957e92f6254bc",
    "elastic_transform.npy": "9421657c6cd452429cf6ce96cc412b5f",
    "fog.npy": "7b397314b5670f825465fbcd1f6e9ccd",
    "frost.npy": "31f6ab3bce1d9934abfb0cc13656f141",
    "gaussian_blur.npy": "c33370155bc9b055fb4a89113d3c559d",
    "gaussian_noise.npy": "ecaf8b9a2399ffeda7680934c33405fd",
    "glass_blur.npy": "7361fb4019269e02dbf6925f083e8629",
    "impulse_noise.npy": "2090e01c83519ec51427e65116af6b1a",
    "jpeg_compression.npy": "2b9cc4c864e0193bb64db8d7728f8187",
    "labels.npy": "c439b113295ed5254878798ffe28fd54",
    "motion_blur.npy": "fffa5f852ff7ad299cfe8a7643f090f4",
    "pixelate.npy": "0f14f7e2db14288304e1de10df16832f",
    "saturate.npy": "1cfae0964219c5102abbb883e538cc56",
    "shot_noise.npy": "3a7239bb118894f013d9bf1984be7f11",
    "snow.npy": "bb238de8555123da9c282dea23bd6e55",
    "spatter.npy": "8a5a3903a7f8f65b59501a6093b4311e",
    "speckle_noise.npy": "ef00b87611792b00df09c0b0237a1e30",
    "zoom_blur.npy": "6ea8e63f1c5cdee1517533840641641b",
}
_CIFAR100_C_MD5 = {
    "brightness.npy": "f22d7195aecd6abb541e27fca230c171",
    "contrast.npy": "322bb385f1d05154ee197ca16535f71e",
    "defocus_blur.npy": "d923e3d9c585a27f0956e2f2ad832564",
    "elastic_transform.npy": "a0792bd6581f6810878be71acedfc65a",
    "fog.npy": "4efc7ebd5e82b028bdbe13048e3ea564",
    "frost.npy": "3a39c6823bdfaa0bf8b12fe7004b8117",
    "gaussian_blur.npy": "5204ba0d557839772ef5a4196a052c3e",
    "gaussian_noise.npy": "ecc4d366eac432bdf25c024086f5e97d",
    "glass_blur.npy": "0bf384f38e5ccbf8dd479d9059b913e1",
    "impulse_noise.npy": "3b3c210ddfa0b5cb918ff4537a429fef",
    "jpeg_compression.npy": "c851b7f1324e1d2ffddeb76920576d11",
    "labels.npy": "bb4026e9ce52996b95f439544568cdb2",
    "motion_blur.npy": "732a7e2e54152ff97c742d4c388c5516",
    "pixelate.npy": "96c00c60f144539e14cffb02ddbd0640",
    "saturate.npy": "c0697e9fdd646916a61e9c312c77bf6b",
    "shot_noise.npy": "b0a1fa6e1e465a747c1b204b1914048a",
    "snow.npy": "0237be164583af146b7b144e73b43465",
    "spatter.npy": "12ccf41d62564d36e1f6a6ada5022728",
    "speckle_noise.npy": "e3f215b1a0f9fd9fd6f0d1cf94a7ce99",
    "zoom_blur.npy": "0204613400c034a81c4830d5df81cb82",
}


CIFAR10 = Source(
    name="cifar10",
    about="CIFAR-10: 50,000 + 10,000 colour images of 32x32, 10 classes (Krizhevsky 2009)",
    folder="cifar-10-batches-py",
    files=_CIFAR10_MD5,
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
)
CIFAR100 = Source(
    name="cifar100",
    about="CIFAR-100: 50,000 + 10,000 colour images of 32x32, 100 classes (Krizhevsky 2009)",
    folder="cifar-100-python",
    files=_CIFAR100_MD5,
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
)


SVHN = Source(
    name="svhn",
    about="SVHN: 73,257 + 26,032 house-number digits of 32x32, 10 classes (Netzer et al. 2011)",
    folder="svhn",
    files=_SVHN_MD5,
    url="http://ufldl.stanford.edu/housenumbers",
    parts=_SVHN_MD5,
)


MNIST = Source(
    name="mnist",
    about="MNIST test set: 10,000 grey digits of 28x28 (LeCun et al. 1998)",
    folder="MNIST/raw",
    files=_MNIST_MD5,
    url="https://ossci-datasets.s3.amazonaws.com/mnist",
    parts={
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)


TINY_IMAGENET = Source(
    name="tiny_imagenet",
    about="Tiny-ImageNet: 100,000 + 10,000 images of 64x64, 200 classes (Le and Yang 2015)",
    folder="tiny-imagenet-200",
    files={"wnids.txt": "", "train": "", "val/val_annotations.txt": "", "val/images": ""},
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
)

CIFAR10_C = Source(
    name="cifar10_c",
    about="CIFAR-10-C: the test images under 19 corruptions of 5 severities (Hendrycks & Dietterich 2019)",
    folder="CIFAR-10-C",
    files=_CIFAR10_C_MD5,
    url="https://zenodo.org/record/2535967/files/CIFAR-10-C.tar",
    archive_md5="56bf5dcef84df0e2308c6dcbcbbd8499",
)
CIFAR100_C = Source(
    name="cifar100_c",
    about="CIFAR-100-C: the test images under 19 corruptions of 5 severities (Hendrycks & Dietterich 2019)",
    folder="CIFAR-100-C",
    files=_CIFAR100_C_MD5,
    url="https://zenodo.org/record/3555552/files/CIFAR-100-C.tar",
    archive_md5="11f0ed0f1191edbf9fa23466ae6021d3",
)
TINY_IMAGENET_C = Source(
    name="tiny_imagenet_c",
    about="Tiny-ImageNet-C: the validation images under corruptions of 5 severities (Hendrycks & Dietterich 2019)",
    folder="Tiny-ImageNet-C",
    files={"": ""},
    url="https://zenodo.org/record/2536630",
)
CIFAR10H = Source(
    name="cifar10h",
    about="CIFAR-10H: label distributions of the test images, 51 people each (Peterson et al. 2019)",
    folder="cifar-10h",
    files={"cifar10h-probs.npy": ""},
    url="https://github.com/jcpeterson/cifar-10h",
)
CIFAR_N = Source(
    name="cifar_n",
    about="CIFAR-10N and CIFAR-100N: human labels of the training images (Wei et al. 2022)",
    folder="cifar-n",
    files={"": ""},
    url="https://github.com/UCSC-REAL/cifar-10-100n",
)


TINY_IMAGENET_32 = Source(
    name="tiny_imagenet_32",
    about="Tiny-ImageNet validation images at 32x32, a folder per class (Le and Yang 2015)",
    folder="tiny-imagenet-32x32",
    files={"": ""},
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip, resized to 32x32",
)

NEWSGROUPS = Source(
    name="newsgroups",
    about="20 Newsgroups, by date: 11,314 + 7,532 posts to 20 groups (Lang 1995)",
    folder="20news-bydate",
    files={"20news-bydate-train": "", "20news-bydate-test": ""},
    url="http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
)


AG_NEWS = Source(
    name="ag_news",
    about="AG News: 120,000 + 7,600 news texts, 4 topics (Zhang et al. 2015)",
    folder="ag_news_csv",
    files={"train.csv": "", "test.csv": ""},
    url="https://huggingface.co/datasets/fancyzhx/ag_news",
)


SOURCES = {
    source.name: source
    for source in (
        CIFAR10,
        CIFAR100,
        SVHN,
        MNIST,
        TINY_IMAGENET,
        TINY_IMAGENET_32,
        CIFAR10_C,
        CIFAR100_C,
        TINY_IMAGENET_C,
        CIFAR10H,
        CIFAR_N,
        NEWSGROUPS,
        AG_NEWS,
    )
}
