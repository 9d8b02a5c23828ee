// csimux with short times, for tests that end it often. The order of the imports matters.
import "./hurry.ts";
import "../../../cmd/csimux.ts";
