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
)


MNIST = Source(
    name="mnist",
    about="MNIST test set: 10,000 grey digits of 28x28 (LeCun et al. 1998)",
    folder="MNIST/raw",
    files=_MNIST_MD5,
    url="https://ossci-datasets.s3.amazonaws.com/mnist",
)


TINY_IMAGENET = Source(
    name="tiny_imagenet",
    about="Tiny-ImageNet: 100,000 + 10,000 images of 64x64, 200 classes (Le and Yang 2015)",
    folder="tiny-imagenet-200",
    files={"wnids.txt": "", "train": "", "val/val_annotations.txt": "", "val/images": ""},
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
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
        NEWSGROUPS,
        AG_NEWS,
    )
}
