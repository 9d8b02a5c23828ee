// csimux that loses patience with a storage after a second, not fifteen. The order of the imports matters.
import "./patience.ts";
import "../../../cmd/csimux.ts";
