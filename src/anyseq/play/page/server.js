"use strict";
/* Whether the full library answers behind this page. It does not, for a page opened from a file or
   from a documentation site; `anyseq play` serves its own server.js, which sets this to true. */
window.ANYSEQ_SERVER = false;
