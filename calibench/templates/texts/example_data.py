"""Makes example texts with labels, `texts.csv`: short messages of three kinds, some of them hard to tell apart."""

import csv
import random

KINDS = {
    "order": ["ordered", "delivery", "parcel", "arrived", "tracking"],
    "payment": ["invoice", "refund", "card", "charged", "paid"],
    "account": ["password", "login", "email", "profile", "locked"],
}
COMMON = ["please", "help", "my", "the", "yesterday", "again", "why", "is", "still", "not"]

random.seed(0)
with open("texts.csv", "w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["text", "label"])
    for _ in range(600):
        kind = random.choice(list(KINDS))
        topic = kind if random.random() < 0.85 else random.choice(list(KINDS))
        words = random.choices(COMMON, k=6) + random.choices(KINDS[topic], k=2)
        random.shuffle(words)
        writer.writerow([" ".join(words), kind])
