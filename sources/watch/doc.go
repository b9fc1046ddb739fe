// Package watch tells a source that reads files when to look at a directory again.
package watch

import _ "github.com/fsnotify/fsnotify"
