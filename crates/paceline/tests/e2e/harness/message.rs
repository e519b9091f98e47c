//! Frontend messages, built byte by byte (PostgreSQL's documentation, "Message Formats"). Nothing is checked: tests
//! want wrong messages, too.

fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

fn untagged(body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
    message.extend(body);
    message
}

fn strings(texts: &[&str]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

/// Any message: tests also send tags that do not exist.
pub(crate) fn any(tag: u8, body: &[u8]) -> Vec<u8> {
    framed(tag, body)
}

pub(crate) fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(strings(&[name, value]));
    }
    body.push(0);
    untagged(&body)
}

pub(crate) fn ssl_request() -> Vec<u8> {
    untagged(&80_877_103_u32.to_be_bytes())
}

pub(crate) fn gss_request() -> Vec<u8> {
    untagged(&80_877_104_u32.to_be_bytes())
}

pub(crate) fn cancel_request(pid: u32, secret: &[u8]) -> Vec<u8> {
    let mut body = 80_877_102_u32.to_be_bytes().to_vec();
    body.extend(pid.to_be_bytes());
    body.extend(secret);
    untagged(&body)
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    framed(b'Q', &strings(&[sql]))
}

/// `types` are parameter type OIDs; 0 leaves one to the server.
pub(crate) fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = strings(&[name, sql]);
    body.extend((types.len() as u16).to_be_bytes());
    body.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    framed(b'P', &body)
}

/// Bind with parameters and results as text.
pub(crate) fn bind(portal: &str, statement: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let parameters: Vec<Option<Vec<u8>>> = parameters
        .iter()
        .map(|value| value.map(|text| text.as_bytes().to_vec()))
        .collect();
    bind_formats(portal, statement, &[], &parameters, &[])
}

/// Bind with format codes: 0 is text, 1 binary; none means text, one is for all.
pub(crate) fn bind_formats(
    portal: &str,
    statement: &str,
    formats: &[u16],
    parameters: &[Option<Vec<u8>>],
    result_formats: &[u16],
) -> Vec<u8> {
    let mut body = strings(&[portal, statement]);
    put_formats(&mut body, formats);
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(value) => {
                body.extend((value.len() as u32).to_be_bytes());
                body.extend(value);
            }
        }
    }
    put_formats(&mut body, result_formats);
    framed(b'B', &body)
}

fn put_formats(body: &mut Vec<u8>, formats: &[u16]) {
    body.extend((formats.len() as u16).to_be_bytes());
    body.extend(formats.iter().flat_map(|code| code.to_be_bytes()));
}

/// `kind` is `b'S'` for a statement, `b'P'` for a portal.
pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(strings(&[name]));
    framed(b'D', &body)
}

/// `kind` is `b'S'` for a statement, `b'P'` for a portal.
pub(crate) fn close(kind: u8, name: &str) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend(strings(&[name]));
    framed(b'C', &body)
}

/// `limit` 0 is no limit.
pub(crate) fn execute(portal: &str, limit: u32) -> Vec<u8> {
    let mut body = strings(&[portal]);
    body.extend(limit.to_be_bytes());
    framed(b'E', &body)
}

pub(crate) fn sync() -> Vec<u8> {
    framed(b'S', &[])
}

pub(crate) fn flush() -> Vec<u8> {
    framed(b'H', &[])
}

pub(crate) fn terminate() -> Vec<u8> {
    framed(b'X', &[])
}

pub(crate) fn copy_data(data: &[u8]) -> Vec<u8> {
    framed(b'd', data)
}

pub(crate) fn copy_done() -> Vec<u8> {
    framed(b'c', &[])
}

pub(crate) fn copy_fail(reason: &str) -> Vec<u8> {
    framed(b'f', &strings(&[reason]))
}

/// A function call with text arguments and a text result.
pub(crate) fn function_call(oid: u32, arguments: &[Option<&str>]) -> Vec<u8> {
    let mut body = oid.to_be_bytes().to_vec();
    put_formats(&mut body, &[0]);
    body.extend((arguments.len() as u16).to_be_bytes());
    for argument in arguments {
        match argument {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(text) => {
                body.extend((text.len() as u32).to_be_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    body.extend(0_u16.to_be_bytes());
    framed(b'F', &body)
}

/// Parse, Bind, Execute of the unnamed statement, without Sync.
pub(crate) fn run(sql: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    [
        parse("", sql, &[]),
        bind("", "", parameters),
        execute("", 0),
    ]
    .concat()
}

/// The same as a unit: with its Sync.
pub(crate) fn unit(sql: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    [run(sql, parameters), sync()].concat()
}
