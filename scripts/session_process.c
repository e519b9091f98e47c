/* Preloaded into isolationtester: gives each session the number of its server process, from the session itself. A pooler gives a number of
 * its own at login, and names the session by it in notifications. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
typedef struct {
    char *channel;
    int process;
    char *payload;
} Notification;
extern PGresult *PQexec(PGconn *conn, const char *query);
extern char *PQgetvalue(const PGresult *result, int row, int column);
extern int PQntuples(const PGresult *result);
extern void PQclear(PGresult *result);

/* More than a test has sessions. */
#define SESSIONS_MAX 64

static struct {
    int at_login;
    int on_server;
} sessions[SESSIONS_MAX];
static int session_count = 0;

int PQbackendPID(const PGconn *conn) {
    int (*at_login)(const PGconn *) = (int (*)(const PGconn *)) dlsym(RTLD_NEXT, "PQbackendPID");
    PGresult *result = PQexec((PGconn *) conn, "SELECT pg_catalog.pg_backend_pid()");
    int pid = PQntuples(result) == 1 ? atoi(PQgetvalue(result, 0, 0)) : 0;

    PQclear(result);
    if (session_count < SESSIONS_MAX) {
        sessions[session_count].at_login = at_login(conn);
        sessions[session_count].on_server = pid;
        session_count++;
    }
    return pid;
}

Notification *PQnotifies(PGconn *conn) {
    Notification *(*next)(PGconn *) = (Notification *(*)(PGconn *)) dlsym(RTLD_NEXT, "PQnotifies");
    Notification *notification = next(conn);

    for (int i = 0; notification && i < session_count; i++) {
        if (notification->process == sessions[i].at_login) {
            notification->process = sessions[i].on_server;
            break;
        }
    }
    return notification;
}
