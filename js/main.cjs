// @ts-check
'use strict'

// What the entry needs of all that is here: `scripts/pack.mjs` makes one file of it, since each file costs its loading.
const { createApi } = require('./create.cjs')
const { loadBinding } = require('./load.cjs')

module.exports = { createApi, loadBinding }
