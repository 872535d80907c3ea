"""Makes an example table, `table.csv`: scikit-learn's breast cancer (569 rows, 30 columns of numbers, two classes)."""

from sklearn.datasets import load_breast_cancer

cancer = load_breast_cancer(as_frame=True)
names = [cancer.target_names[number] for number in cancer.target]
cancer.data.assign(label=names).to_csv("table.csv", index=False)
