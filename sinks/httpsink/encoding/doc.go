// Package encoding has the request bodies of the http sink: how a batch is
// written for each protocol, and what an answer in it says about the items.
// Each encoding has a file of its own with the specification that it follows.
//
// All of them carry the id of a record, so that a redelivery can be recognised,
// except ndjson and jsonArray, which are the records and nothing else.
package encoding
