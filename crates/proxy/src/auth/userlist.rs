//! PgBouncer's `userlist.txt`: `"user" "secret"` on each line, with quotes doubled inside. The rest of a line is ignored; a line
//! that begins with `;` is a comment. No error message repeats the content of a line.

use paceline_pool::credentials::{StoredSecret, Users};

/// The number of an invalid line, and the reason.
pub(super) type Broken = (usize, &'static str);

/// Reads the text of the file. If a user has two lines, the second one counts.
pub(super) fn read(text: &str) -> Result<Users, Broken> {
    let mut users = Users::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let (user, rest) = quoted(line).map_err(|why| (number, why))?;
        let (secret, _) = quoted(rest.trim_start()).map_err(|why| (number, why))?;
        users.insert(user, StoredSecret::read(&secret));
    }
    Ok(users)
}

/// The text between the quotes at the beginning of a line, and the rest of the line.
fn quoted(line: &str) -> Result<(String, &str), &'static str> {
    let mut rest = line
        .strip_prefix('"')
        .ok_or("write \"user\" \"password\", both in double quotes")?;
    let mut text = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(
            "a double quote is not closed; inside of a name or password it is written twice",
        )?;
        text.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                text.push('"');
                rest = after;
            }
            None => return Ok((text, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::Secret as Password;

    #[test]
    fn secrets_of_every_kind_are_read() {
        let md5 = "md545f2603610af569b6155c45067268c6b";
        let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let scram = format!("SCRAM-SHA-256$4096:AAAA${key}:{key}");
        let text = format!(
            "; \"not\" \"read\"\n\n  \"in clear\" \"p;a\"\"ss\" \"old\"\n\"by_md5\"\t\"{md5}\" ; rest\n\
             \"by_scram\" \"{scram}\"\n\"nobody\" \"\"\n\"twice\" \"1\"\n\"twice\" \"2\"\n"
        );
        let users = read(&text).unwrap();
        let plain = |text: &str| StoredSecret::Plain(Password::new(text.to_owned()));
        assert_eq!(users.len(), 5);
        assert_eq!(users["in clear"], plain("p;a\"ss"));
        assert_eq!(
            users["by_md5"],
            StoredSecret::Md5(Password::new(md5.to_owned()))
        );
        assert!(matches!(users["by_scram"], StoredSecret::Scram(_)));
        assert_eq!(users["nobody"], StoredSecret::None);
        assert_eq!(users["twice"], plain("2"));
    }

    #[test]
    fn an_invalid_line_is_reported_by_its_number_alone() {
        for line in [
            "user password",
            "\"user\"",
            "\"user\" password",
            "\"user\" \"pass",
            "\"user \"pass\"",
            "# \"user\" \"pass\"",
        ] {
            let (number, why) = read(&format!("\"a\" \"b\"\n{line}\n")).unwrap_err();
            assert_eq!(number, 2, "{line}");
            assert!(!why.contains("pass\""), "{why}");
        }
    }
}
