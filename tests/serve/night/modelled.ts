// csimux with a host whose kernel is a model. The order of the imports matters.
import "./model-paths.ts";
import "../../../cmd/csimux.ts";
