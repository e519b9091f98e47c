//! The context for the protocol state: the client and its server connection.

use crate::client::Client;
use paceline_pool::server::ServerConn;
use paceline_relay::relay::RelayContext;
use paceline_relay::template::Template;
use std::sync::Arc;

/// Runs `work` with the context that the protocol state needs: the client's session and the server connection's state.
pub(super) fn with_context<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    with_context_and_template(client, conn, None, work)
}

/// The same, with the template of the client's query if it is known.
pub(super) fn with_context_and_template<R>(
    client: &mut Client,
    conn: &mut ServerConn,
    template: Option<&Arc<Template>>,
    work: impl FnOnce(&mut RelayContext<'_>) -> R,
) -> R {
    let settings = client.session.settings.id;
    let pool = &client.pool;
    let may_change_session = |template: &Template| {
        // Without the analysis, the name of a field is taken for that of a column.
        let unknown = || template.calls_functions();
        template.may_call_functions()
            && pool
                .changes_session(template.id, settings)
                .unwrap_or_else(unknown)
    };
    let pool_settings = client.pool_settings.load();
    let mut context = RelayContext {
        session: &mut client.session,
        server: &mut conn.side,
        templates: &client.proxy.shared.templates,
        interner: &client.proxy.shared.settings_interner,
        show_source: &**pool,
        may_change_session: &may_change_session,
        policy: &pool_settings.state,
        query: template,
    };
    work(&mut context)
}
