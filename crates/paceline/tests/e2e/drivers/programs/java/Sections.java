// What one client does with pgjdbc: types, batches, cursors, savepoints, COPY, warnings, several statements at once.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.UUID;
import java.util.function.Consumer;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

record Sections(Connection connection, String table, Consumer<String> said) {
    static final int BIG = 1 << 20;

    void run() throws Exception {
        execute("CREATE TABLE " + table + " (id int PRIMARY KEY, note text)");
        types();
        errors();
        batches();
        cursor();
        copy();
        session();
        prepared("UPDATE shared SET hits = hits + ? WHERE id = 1", 20, statement -> {
            statement.setInt(1, 1);
            statement.executeUpdate();
        });
    }

    interface Use {
        void with(PreparedStatement statement) throws SQLException;
    }

    void say(String section, Object... values) {
        said.accept(section + ": " + Arrays.deepToString(values));
    }

    void sayError(SQLException error) {
        say("error", error.getSQLState(), error.getMessage());
    }

    void execute(String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    void prepared(String sql, int times, Use use) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int time = 0; time < times; time++) {
                use.with(statement);
            }
        }
    }

    Object value(String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    void types() throws SQLException {
        String sql = "SELECT ?::int8, ?::numeric, ?::text, ?::bytea, ?::bool, ?::float8, ?::date, ?::timestamptz, ?::uuid,"
            + " ?::int4[], ?::jsonb, ?::int4";
        prepared(sql, 4, statement -> {
            statement.setLong(1, Long.MIN_VALUE);
            statement.setBigDecimal(2, new BigDecimal("1234567890.0123456789"));
            statement.setString(3, "Grüße, 世界 'quoted' \\ \n");
            statement.setBytes(4, new byte[] {0, 1, -1});
            statement.setBoolean(5, true);
            statement.setDouble(6, 1.5);
            statement.setObject(7, LocalDate.of(1999, 12, 31));
            statement.setObject(8, OffsetDateTime.parse("2024-02-29T12:00:00Z"));
            statement.setObject(9, UUID.fromString("00010203-0405-0607-0809-0a0b0c0d0e0f"));
            statement.setArray(10, connection.createArrayOf("int4", new Integer[] {1, null, 3}));
            statement.setObject(11, "{\"a\": [1, null, \"ü\"]}", Types.OTHER);
            statement.setNull(12, Types.INTEGER);
            sayRows("types", statement.executeQuery());
        });
        prepared("SELECT md5(?::text), octet_length(?::bytea), repeat('y', 1000000)", 3, statement -> {
            statement.setString(1, "ü".repeat(BIG / 2));
            statement.setBytes(2, new byte[BIG]);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                say("big", rows.getString(1), rows.getInt(2), rows.getString(3).length());
            }
        });
    }

    void sayRows(String section, ResultSet rows) throws SQLException {
        try (rows) {
            int columns = rows.getMetaData().getColumnCount();
            while (rows.next()) {
                Object[] values = new Object[columns];
                for (int column = 1; column <= columns; column++) {
                    Object value = rows.getObject(column);
                    values[column - 1] = value instanceof java.sql.Array array ? array.getArray() : value;
                }
                say(section, values);
            }
        }
    }

    void errors() throws SQLException {
        connection.setAutoCommit(false);
        execute("INSERT INTO " + table + " VALUES (1, 'kept')");
        Savepoint here = connection.setSavepoint();
        for (String sql : new String[] {"INSERT INTO " + table + " VALUES (1, 'twice')", "SELECT 1"}) {
            try {
                execute(sql);
            } catch (SQLException error) {
                sayError(error);
            }
        }
        connection.rollback(here);
        connection.commit();
        execute("DELETE FROM " + table);
        connection.rollback();
        connection.setAutoCommit(true);
        say("rows", value("SELECT count(*) FROM " + table));
        try {
            execute("SELECT nothing");
        } catch (SQLException error) {
            sayError(error);
        }
        prepared("SELECT ?::int + count(*) FROM " + table, 20, statement -> {
            statement.setInt(1, 7);
            sayRows("prepared", statement.executeQuery());
        });
    }

    void batches() throws SQLException {
        prepared("INSERT INTO " + table + " VALUES (?, ?)", 1, statement -> {
            for (int number = 100; number < 400; number++) {
                statement.setInt(1, number);
                statement.setString(2, number % 3 == 0 ? null : "ü");
                statement.addBatch();
            }
            say("batch", statement.executeBatch());
            for (int number : new int[] {900, 100, 901}) {
                statement.setInt(1, number);
                statement.setString(2, "in a batch that fails");
                statement.addBatch();
            }
            try {
                statement.executeBatch();
            } catch (BatchUpdateException error) {
                sayError(error);
                say("done", error.getUpdateCounts());
            }
        });
        try (PreparedStatement keys = connection.prepareStatement(
                "INSERT INTO " + table + " VALUES (902, 'key')", Statement.RETURN_GENERATED_KEYS)) {
            keys.executeUpdate();
            sayRows("keys", keys.getGeneratedKeys());
        }
        say("rows", value("SELECT count(*) FROM " + table));
    }

    // With rows fetched a hundred at a time, by a portal that stays open.
    void cursor() throws SQLException {
        connection.setAutoCommit(false);
        long sum = 0;
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT generate_series(1, 1050)")) {
            while (rows.next()) {
                sum += rows.getInt(1);
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
        say("cursor", sum);
    }

    void copy() throws Exception {
        CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder lines = new StringBuilder();
        for (int number = 1000; number < 4000; number++) {
            lines.append(number).append("\tü\n");
        }
        say("copied", copies.copyIn("COPY " + table + " FROM STDIN", new StringReader(lines.toString())));
        StringWriter out = new StringWriter();
        long rows = copies.copyOut("COPY (SELECT * FROM " + table + " ORDER BY id) TO STDOUT", out);
        say("copy", rows, UUID.nameUUIDFromBytes(out.toString().getBytes(StandardCharsets.UTF_8)));
        try {
            copies.copyIn("COPY " + table + " FROM STDIN", new StringReader("not a number\tx\n"));
        } catch (SQLException error) {
            sayError(error);
        }
    }

    void session() throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DO $$ BEGIN RAISE NOTICE 'heard'; RAISE WARNING 'twice'; END $$");
            for (SQLWarning warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) {
                say("notice", warning.getSQLState(), warning.getMessage());
            }
            statement.execute("SET TimeZone = 'Asia/Tokyo'");
            say("setting", value("SHOW TimeZone"));
            statement.execute("RESET TimeZone");
            say("empty", statement.execute(""), statement.getUpdateCount());
            boolean rows = statement.execute("SELECT 1; UPDATE shared SET hits = hits; ; SELECT 'two'");
            while (rows || statement.getUpdateCount() != -1) {
                if (rows) {
                    sayRows("several", statement.getResultSet());
                } else {
                    say("several", statement.getUpdateCount());
                }
                rows = statement.getMoreResults();
            }
            try {
                statement.execute("SELECT 1; SELECT 1 / 0");
            } catch (SQLException error) {
                sayError(error);
            }
        }
    }
}
