// Package rawjson reads and writes JSON as bytes, without decoding it: records are
// validated, searched and copied as they came.
//
//	valid.go    KindOf: is a line JSON in UTF-8
//	plain.go    64 bytes of a string at a time
//	token.go    the tokens between strings
//	walk.go     where a value ends, members and items, values by their path
//	text.go     what a string says
//	string.go   strings and compact values, written
//
// KindOf and End check what they are given. Everything else is for text that KindOf has
// accepted. In other text it may find anything, but it never panics, runs on without
// end, or returns an index beyond the text.
//
// Nothing here allocates, apart from the text of a string with escapes and a line that
// nests deeper than 64. Nesting takes no stack.
package rawjson
