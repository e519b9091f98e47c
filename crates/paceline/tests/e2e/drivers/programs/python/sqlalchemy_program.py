"""SQLAlchemy on psycopg: an engine with a pool, objects, transactions with savepoints, reflection, streaming."""
import sqlalchemy as sql
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql

from stage import BIG, URL, Report, in_threads

engine = sql.create_engine(URL.replace("postgres://", "postgresql+psycopg://"), pool_size=4, pool_pre_ping=True)


class Base(orm.DeclarativeBase):
    """Of the mapped classes."""


class Order(Base):
    """With the kinds of columns that applications have."""

    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    client: orm.Mapped[int]
    note: orm.Mapped[str | None]
    amount = orm.mapped_column(sql.Numeric(12, 2))
    tags = orm.mapped_column(postgresql.ARRAY(sql.Text))
    document = orm.mapped_column(postgresql.JSONB)
    lines: orm.Mapped[list["Line"]] = orm.relationship(order_by="Line.id", back_populates="order")


class Line(Base):
    """Of an order."""

    __tablename__ = "lines"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    order_id = orm.mapped_column(sql.ForeignKey("orders.id"))
    order: orm.Mapped[Order] = orm.relationship(back_populates="lines")


shared = sql.Table("shared", Base.metadata, sql.Column("id", sql.Integer, primary_key=True), sql.Column("hits", sql.Integer))


def client(report):
    first = report.number * 1000
    with orm.Session(engine) as session:
        objects(session, report, first)
        errors(session, report, first)
        large(session, report)
    with engine.connect() as connection:
        streaming(connection, report)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        settings(connection, report)
    for _ in range(20):
        with engine.begin() as connection:
            connection.execute(sql.update(shared).where(shared.c.id == 1).values(hits=shared.c.hits + 1))


def objects(session, report, first):
    for number in range(first, first + 20):
        order = Order(id=number, client=report.number, note=None if number % 2 else "ü", amount="1.50", tags=["a", None], document={"n": number})
        order.lines = [Line(id=number * 10 + line) for line in range(3)]
        session.add(order)
    session.commit()
    mine = sql.select(Order).where(Order.client == report.number).order_by(Order.id)
    for order in session.scalars(mine.options(orm.selectinload(Order.lines))):
        report.say("order", order.id, order.note, order.amount, order.tags, order.document, [line.id for line in order.lines])
    counted = sql.select(sql.func.count(), sql.func.sum(Order.amount)).where(Order.client == report.number)
    report.say("sum", tuple(session.execute(counted).one()))


def errors(session, report, first):
    session.add(Order(id=first, client=report.number))
    try:
        session.commit()
    except sql.exc.IntegrityError as error:
        report.say("error", error.orig.sqlstate, error.orig.diag.constraint_name)
        session.rollback()
    with session.begin_nested():
        session.add(Order(id=first + 500, client=report.number))
    try:
        with session.begin_nested():
            session.add(Line(id=first * 10, order_id=first))
    except sql.exc.IntegrityError as error:
        report.say("error", error.orig.sqlstate, error.orig.diag.constraint_name)
    session.commit()
    report.say("kept", session.get(Order, first + 500) is not None)


def large(session, report):
    report.say("big", session.scalar(sql.select(sql.literal("ü" * (BIG // 2)))))


def streaming(connection, report):
    rows = connection.execute(sql.text("SELECT generate_series(1, 100)"), execution_options={"yield_per": 10})
    report.say("stream", [len(part) for part in rows.partitions()])
    connection.rollback()


def settings(connection, report):
    connection.execute(sql.text("SET TimeZone = 'Asia/Tokyo'"))
    report.say("setting", connection.scalar(sql.text("SHOW TimeZone")))
    connection.execute(sql.text("RESET TimeZone"))


def alone(report):
    found = sql.inspect(engine)
    for table in sorted(found.get_table_names()):
        report.say("reflected", table, [(column["name"], str(column["type"])) for column in found.get_columns(table)])
        report.say("keys", found.get_pk_constraint(table), found.get_foreign_keys(table), found.get_indexes(table))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        report.say("sum", connection.scalar(sql.select(shared.c.hits)))


Base.metadata.create_all(engine)
with engine.begin() as setup:
    setup.execute(sql.insert(shared).values(id=1, hits=0))
in_threads(client)
last = Report("alone")
alone(last)
last.show()
