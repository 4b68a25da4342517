// The table as a picture: how many times as quick as the peer, on a logarithmic scale.

import { quantile } from './report.mjs'

const ROW = 34
const LEFT = 270
const WIDTH = 760
const TOP = 46
const MOST = 1000

/** An SVG of a bar for each row. It reads on light and on dark pages. */
export function chart(rows) {
  const scale = ratio => (Math.log10(Math.max(1, ratio)) / Math.log10(MOST)) * (WIDTH - LEFT - 90)
  const bars = rows.map(({ name, resident, peer }, i) => {
    const ratio = quantile(peer, 0.5) / quantile(resident, 0.5)
    const y = TOP + i * ROW
    const end = LEFT + Math.max(2, scale(ratio))
    return `<text x="${LEFT - 10}" y="${y + 15}" text-anchor="end">${escaped(name)}</text>
<rect x="${LEFT}" y="${y}" width="${(end - LEFT).toFixed(1)}" height="20" rx="3" fill="#2f81f7"/>
<text x="${(end + 8).toFixed(1)}" y="${y + 15}">${ratio.toFixed(ratio < 10 ? 1 : 0)} ×</text>`
  })
  const height = TOP + rows.length * ROW + 10
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="How many times as quick as dockerode">
<style>text { font: 14px system-ui, sans-serif; fill: #6e7681 } .title { font-weight: 600 }</style>
<text class="title" x="${LEFT}" y="24">Times as quick as dockerode (medians, logarithmic)</text>
${bars.join('\n')}
</svg>
`
}

const escaped = text => text.replaceAll('`', '').replaceAll('&', '&amp;').replaceAll('<', '&lt;')
