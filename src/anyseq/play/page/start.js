"use strict";
/* The last script: all tabs are registered, show the one that the address names. */
Play.start();
