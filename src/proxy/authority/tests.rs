use super::*;

fn parse(text: &str) -> Result<String, AuthorityFault> {
  Authority::parse(text, None).map(|authority| authority.to_string())
}

#[test]
fn a_host_and_a_port_are_read() {
  assert_eq!(parse("Good.com.:443"), Ok("good.com:443".to_owned()));
  assert_eq!(parse("good.com:1"), Ok("good.com:1".to_owned()));
  assert_eq!(parse("good.com:65535"), Ok("good.com:65535".to_owned()));
  let plain = Authority::parse("good.com", Some(80)).map(|authority| authority.to_string());
  assert_eq!(plain, Ok("good.com:80".to_owned()));
}

#[test]
fn what_is_no_authority_is_refused() {
  use AuthorityFault::*;
  for (text, fault) in [
    ("good.com", PortMissing),
    ("good.com:", Port),
    ("good.com:0", Port),
    ("good.com:00", Port),
    ("good.com:0443", Port),
    ("good.com:+443", Port),
    ("good.com:65536", Port),
    ("good.com:443x", Port),
    ("good.com: 443", Port),
    ("good.com:４４３", Port),
    ("good.com:443/..", Port),
    ("good.com@127.0.0.1:443", UserInfo),
    ("good.com:443@evil.com:443", UserInfo),
    ("::1:8080", Host(HostFault::Address)),
    ("[example.com]:443", Host(HostFault::Characters)),
    ("[127.0.0.1]:80", Host(HostFault::Address)),
    ("[[::1]]:80", Host(HostFault::Address)),
    ("[::1", Host(HostFault::Characters)),
    ("[::1]", Host(HostFault::Address)),
    ("[]:443", Host(HostFault::Characters)),
    ("[fe80::1%25eth0]:80", Host(HostFault::Address)),
    ("good.com:443:443", Host(HostFault::Characters)),
    ("good%2ecom:443", Host(HostFault::Characters)),
    ("127.0.0.1:443", Host(HostFault::Address)),
    ("good.com\t:443", Host(HostFault::Characters)),
    ("good.com\0:443", Host(HostFault::Characters)),
    (":443", Host(HostFault::EmptyLabel)),
    ("", Host(HostFault::EmptyLabel)),
    ("good.com..:443", Host(HostFault::EmptyLabel)),
  ] {
    assert_eq!(parse(text), Err(fault), "{text:?}");
  }
  assert_eq!(parse(&format!("{}.com:443", "a".repeat(300))), Err(Host(HostFault::TooLong)));
}
