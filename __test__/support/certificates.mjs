// Certificates for engines and their clients, made by openssl.
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A key of the quick kind: an RSA one costs a third of a second each time. */
export const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'.split(' ')
const LONG_AGO = ['-startdate', '20200101000000Z', '-enddate', '20200201000000Z']
const A_DAY = ['-days', '1']

export function openssl(...args) {
  const { status, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`openssl ${args.join(' ')}: ${error ?? stderr}`)
}

/** A certificate authority in a folder of its own below `folder`. */
export function makeAuthority(folder, name) {
  const home = join(folder, name)
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'issued'), '')
  const [ca, key] = [join(home, 'ca.pem'), join(home, 'ca-key.pem')]
  openssl('req', '-x509', ...NEW_KEY, ...A_DAY, '-subj', `/CN=${name}`, '-keyout', key, '-out', ca)
  return { home, ca, key }
}

/**
 * A folder below the authority's with `ca.pem`, `cert.pem` and `key.pem` as Docker names them: of a server for the names in
 * `names` (`DNS:localhost`, `IP:127.0.0.1`), or without them of a client. `expired` ended years ago.
 */
export function issue(authority, name, { names, expired = false } = {}) {
  const folder = join(authority.home, name)
  mkdirSync(folder)
  copyFileSync(authority.ca, join(folder, 'ca.pem'))
  const file = part => join(folder, part)
  const usage = names
    ? `extendedKeyUsage = serverAuth\nsubjectAltName = ${names.join(',')}`
    : 'extendedKeyUsage = clientAuth'
  const config = `[ca]\ndefault_ca = all\n[all]\nnew_certs_dir = ${folder}\ndatabase = ${join(authority.home, 'issued')}
unique_subject = no\nrand_serial = yes\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n[usage]\n${usage}\n`
  writeFileSync(file('config'), config)
  openssl('req', '-new', ...NEW_KEY, '-subj', `/CN=${name}`, '-keyout', file('key.pem'), '-out', file('request'))
  const by = ['-cert', authority.ca, '-keyfile', authority.key, '-config', file('config'), '-extensions', 'usage']
  const when = expired ? LONG_AGO : A_DAY
  openssl('ca', '-batch', '-notext', ...by, ...when, '-in', file('request'), '-out', file('cert.pem'))
  return { folder, ca: file('ca.pem'), cert: file('cert.pem'), key: file('key.pem') }
}
