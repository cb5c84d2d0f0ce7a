"""What the database and the instances must show after a load."""

# Each question names the rows that should not be.
QUESTIONS = {
    "seats sold twice":
        "SELECT seat, count(*) FROM journal WHERE sold = 1 GROUP BY seat HAVING count(*) > 1",
    "sold seats whose owner is not the buyer":
        "SELECT seats.id FROM seats JOIN journal ON journal.seat = seats.id AND journal.sold = 1"
        " WHERE seats.sold = 0 OR seats.owner <> journal.owner",
    "seats sold without a purchase":
        "SELECT id FROM seats WHERE sold = 1"
        " AND id NOT IN (SELECT seat FROM journal WHERE sold = 1)",
    "seats that changed after the sale":
        "SELECT a.seat FROM journal a JOIN journal b ON a.seat = b.seat"
        " WHERE a.sold = 1 AND b.version > a.version",
    # Each write reads the version, and writes the next one. Two that overlap write the same.
    "seats with lost updates":
        "SELECT id, version, written FROM seats JOIN (SELECT seat, count(*) AS written,"
        " max(version) AS last FROM journal GROUP BY seat) AS j ON j.seat = seats.id"
        " WHERE written <> version OR last <> version",
    "writes with a fence that does not grow":
        "SELECT a.seat FROM journal a JOIN journal b ON a.seat = b.seat"
        " AND b.version = a.version + 1 WHERE b.fence <= a.fence",
}


def audit(database, instances, confirmed):
    """Lines about faults; none if all is well. `confirmed`: the answers 200 that buyers have."""
    faults = []
    for name, sql in QUESTIONS.items():
        rows = database.query(sql)
        if rows:
            faults.append(f"{len(rows)} {name}, for example {rows[0]}")
    written = database.query("SELECT count(*) FROM journal")[0][0]
    if written < confirmed:
        faults.append(f"{confirmed} changes were confirmed, and {written} are in the database")
    for instance in instances:
        left = instance.locks()
        if left:
            faults.append(f"{len(left)} locks are left on {instance.address}: {left[0]}")
    return faults
