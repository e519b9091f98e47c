/* Preloaded into isolationtester: the number of a session's server process, from the session itself. At login a pooler gives a number of its own. */
#include <stdlib.h>

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
extern PGresult *PQexec(PGconn *conn, const char *query);
extern char *PQgetvalue(const PGresult *result, int row, int column);
extern int PQntuples(const PGresult *result);
extern void PQclear(PGresult *result);

int PQbackendPID(const PGconn *conn) {
    PGresult *result = PQexec((PGconn *) conn, "SELECT pg_catalog.pg_backend_pid()");
    int pid = PQntuples(result) == 1 ? atoi(PQgetvalue(result, 0, 0)) : 0;

    PQclear(result);
    return pid;
}
