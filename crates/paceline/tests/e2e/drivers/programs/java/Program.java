// pgjdbc: clients at work at once, whose lines are printed in order; then what one client does alone.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

class Program {
    static final int CLIENTS = 4;
    static final String SLEEP = "SELECT pg_sleep(600)";
    static final String SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        + " AND state = 'active' AND query = '" + SLEEP + "'";

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0].replaceFirst("postgres://postgres@", "jdbc:postgresql://")
            + "?user=postgres&sslmode=disable";
        try (Connection setup = DriverManager.getConnection(url); Statement statement = setup.createStatement()) {
            statement.execute("CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)");
        }
        ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
        List<Callable<List<String>>> clients = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            clients.add(client(url, number));
        }
        for (Future<List<String>> said : threads.invokeAll(clients)) {
            said.get().forEach(System.out::println);
        }
        threads.shutdown();
        alone(url);
    }

    static Callable<List<String>> client(String url, int number) {
        return () -> {
            List<String> lines = new ArrayList<>();
            // Prepared on the server from the second run on, and binary from then on, too.
            try (Connection connection = DriverManager.getConnection(url + "&prepareThreshold=2&defaultRowFetchSize=100")) {
                new Sections(connection, "rows" + number, line -> lines.add("client " + number + ": " + line)).run();
            }
            return lines;
        };
    }

    static void alone(String url) throws Exception {
        try (Connection connection = DriverManager.getConnection(url);
                Connection observer = DriverManager.getConnection(url);
                Statement sleeping = connection.createStatement()) {
            Thread canceller = new Thread(() -> cancel(sleeping, observer));
            canceller.start();
            try {
                sleeping.execute(SLEEP);
            } catch (SQLException error) {
                System.out.println("cancelled: " + error.getSQLState() + " " + error.getMessage());
            }
            canceller.join();
            sleeping.execute("LISTEN news");
            try (Statement notify = observer.createStatement()) {
                notify.execute("NOTIFY news, 'hello'");
                for (PGNotification heard : connection.unwrap(PGConnection.class).getNotifications(0)) {
                    System.out.println("heard: " + heard.getName() + " " + heard.getParameter());
                }
                System.out.println("sum: " + number(notify, "SELECT hits FROM shared"));
            }
        }
    }

    static void cancel(Statement sleeping, Connection observer) {
        try (Statement statement = observer.createStatement()) {
            while (number(statement, SLEEPING) == 0) {
                Thread.onSpinWait();
            }
            sleeping.cancel();
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    static long number(Statement statement, String query) throws SQLException {
        try (ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getLong(1);
        }
    }
}
