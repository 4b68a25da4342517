// Writes src/proxy/address/table.rs: every special range of addresses and whether it is globally reachable.
//
//   node scripts/address-table.mjs [--ipv4 FILE] [--ipv6 FILE] [--revision DATE] [--check]
//
// FILE is a registry's CSV as IANA publishes it (iana-ipv4-special-registry-1.csv, iana-ipv6-special-registry-1.csv);
// without it the copy in scripts/data is read. --revision is the date that the registries carry. --check writes nothing
// and fails if the committed table is another.

import { readFileSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'

const root = new URL('..', import.meta.url)
const target = new URL('src/proxy/address/table.rs', root)
const { values } = parseArgs({
  options: {
    ipv4: { type: 'string', default: data('iana-ipv4-special-registry-1.csv') },
    ipv6: { type: 'string', default: data('iana-ipv6-special-registry-1.csv') },
    revision: { type: 'string', default: '2025-10-09' },
    check: { type: 'boolean', default: false },
  },
})

const rows = [values.ipv4, values.ipv6, data('other-ranges.csv')].flatMap(readRows)
const text = format(render(rows))
if (!values.check) writeFileSync(target, text)
else if (readFileSync(target, 'utf8') !== text) {
  console.error('src/proxy/address/table.rs is not what scripts/address-table.mjs writes')
  process.exitCode = 1
}

function data(name) {
  return new URL(`scripts/data/${name}`, root).pathname
}

/** One row for each block; a cell of the registry may hold two blocks, and notes such as "[2]". */
function readRows(file) {
  const [head, ...lines] = parseCsv(readFileSync(file, 'utf8'))
  const column = name => {
    const at = head.indexOf(name)
    if (at < 0) throw new Error(`${file} has no column ${name}`)
    return at
  }
  const [block, name, rfc, reach] = ['Address Block', 'Name', 'RFC', 'Globally Reachable'].map(column)
  return lines.flatMap(line =>
    withoutNotes(line[block])
      .split(/[\s,]+/)
      .filter(Boolean)
      .map(net => ({ net, name: clean(line[name]), source: clean(line[rfc]), global: isGlobal(file, line[reach]) })),
  )
}

/** "N/A" says that the question has no answer, so the range counts as not globally reachable. */
function isGlobal(file, cell) {
  const word = withoutNotes(cell).trim()
  if (!['True', 'False', 'N/A'].includes(word)) throw new Error(`${file}: "${cell}" is no reachability`)
  return word === 'True'
}

function withoutNotes(cell) {
  return cell.replaceAll(/\[\d+\]/g, '')
}

function clean(cell) {
  return cell
    .replaceAll('][', ', ')
    .replaceAll(/["[\]]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

/** RFC 4180: quoted cells may hold commas, line ends and doubled quotes. */
function parseCsv(text) {
  const lines = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    lines.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end !== ',') lines.push([])
  }
  return lines.filter(line => line.length > 1)
}

function render(all) {
  const family = wanted => all.filter(({ net }) => net.includes(':') === (wanted === 6)).map(row => entry(wanted, row))
  return `//! Special ranges of addresses. Written by \`scripts/address-table.mjs\`; not to be edited.
//!
//! Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, RFC 8190) of ${values.revision}, and
//! \`scripts/data/other-ranges.csv\`: multicast, deprecated and cloud metadata addresses.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

use super::Range;

/// IPv4; where ranges lie within each other, the longest prefix counts.
pub(super) const IPV4: &[Range<Ipv4Net>] = &[
${family(4).join('\n')}
];

/// IPv6; where ranges lie within each other, the longest prefix counts.
pub(super) const IPV6: &[Range<Ipv6Net>] = &[
${family(6).join('\n')}
];
`
}

function entry(version, { net, name, source, global }) {
  const [address, length] = net.split('/')
  const parts = version === 4 ? address.split('.') : groups(address).map(group => `0x${group}`)
  const made = `Ipv${version}Net::new_assert(Ipv${version}Addr::new(${parts.join(', ')}), ${length})`
  return `  // ${net}: ${source}\n  Range { net: ${made}, name: ${JSON.stringify(name)}, global: ${global} },`
}

function groups(address) {
  const [front, back] = address.split('::').map(half => half.split(':').filter(Boolean))
  return back === undefined ? front : [...front, ...Array(8 - front.length - back.length).fill('0'), ...back]
}

function format(source) {
  const { status, stdout, stderr } = spawnSync('rustfmt', ['--edition', '2024', '--emit', 'stdout'], {
    cwd: root,
    input: source,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`rustfmt failed: ${stderr}`)
  return stdout
}
