// Package contract holds the tests of what two modules promise each other: the client
// against the exporter's own source, the type of a record against its schema. The
// modules decision and client require no library, so these tests stand here.
package contract
