package config

import (
	"fmt"
	"io"
	"strings"
)

// completions has for each shell the function that writes its completion script.
var completions = map[string]func(*strings.Builder){"bash": bashCompletion, "zsh": zshCompletion,
	"fish": fishCompletion}

// CanComplete reports whether there is a completion script for a shell.
func CanComplete(shell string) bool { return completions[shell] != nil }

// Completion writes the completion script for a shell, for which CanComplete must be true.
func Completion(shell string, w io.Writer) error {
	var b strings.Builder
	completions[shell](&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// choices returns the words that the option's value may be; nil if it may be any text.
func (o *option) choices() []string {
	if o.kind == kindBool {
		return []string{"yes", "no"}
	}
	return o.enum
}

// path reports whether the option's value is the path of a file or of a directory.
func (o *option) path() (file, directory bool) {
	directory = o.name == "dir" || strings.HasSuffix(o.name, "-dir")
	file = strings.HasSuffix(o.name, "file") || o.name == "unixsocket"
	return file, directory
}

// argument returns any, file, directory or choices, by the kind of the option's value. choices is a
// format for the possible words.
func (o *option) argument(any, file, directory, choices string) string {
	isFile, isDirectory := o.path()
	switch {
	case isFile:
		return file
	case isDirectory:
		return directory
	case o.choices() != nil:
		return fmt.Sprintf(choices, strings.Join(o.choices(), " "))
	}
	return any
}

// subcommandNames returns the names of all subcommands.
func subcommandNames() (names []string) {
	for _, u := range subcommands() {
		names = append(names, u.Name)
	}
	return names
}

// onDirectories returns the subcommands whose first argument is a directory.
func onDirectories() (names []string) {
	for _, u := range subcommands() {
		if strings.HasPrefix(u.Args, "DIR") {
			names = append(names, u.Name)
		}
	}
	return names
}

func bashCompletion(b *strings.Builder) {
	var names, files, directories []string
	b.WriteString("# bash completion for keyp\n_keyp() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n\tCOMPREPLY=()\n\tcase $prev in\n")
	for o := range effective() {
		names = append(names, "--"+o.name)
		file, directory := o.path()
		switch {
		case file:
			files = append(files, "--"+o.name)
		case directory:
			directories = append(directories, "--"+o.name)
		case o.choices() != nil:
			fmt.Fprintf(b, "\t--%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
				o.name, strings.Join(o.choices(), " "))
		}
	}
	fmt.Fprintf(b, "\t%s) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
		strings.Join(files, "|"))
	fmt.Fprintf(b, "\t%s) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n",
		strings.Join(append(directories, onDirectories()...), "|"))
	b.WriteString(
		"\tcompletion) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\")); return ;;\n\tesac\n")
	fmt.Fprintf(b,
		"\tif [[ $cur == -* ]]; then\n\t\tCOMPREPLY=($(compgen -W '--help --version %s' -- \"$cur\"))\n",
		strings.Join(names, " "))
	fmt.Fprintf(b,
		"\telif [[ $COMP_CWORD == 1 ]]; then\n\t\tcompopt -o filenames\n\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\") $(compgen -f -- \"$cur\"))\n\tfi\n}\ncomplete -F _keyp keyp\n",
		strings.Join(subcommandNames(), " "))
}

// shellQuoted returns the text in single quotes for a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func zshCompletion(b *strings.Builder) {
	b.WriteString("#compdef keyp\n_keyp() {\n\tlocal -a options tools\n\toptions=(\n\t\t'(- *)'{-h,--help}'[print the usage]'\n\t\t'(- *)'{-v,--version}'[print the version]'\n")
	escaped := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	for o := range effective() {
		values := o.argument(" ", "_files", "_files -/", "(%s)")
		fmt.Fprintf(b, "\t\t%s\n",
			shellQuoted("*--"+o.name+"["+escaped.Replace(o.help)+"]:"+o.name+":"+values))
	}
	b.WriteString("\t)\n\ttools=(\n")
	for _, u := range subcommands() {
		fmt.Fprintf(b, "\t\t%s\n", shellQuoted(u.Name+":"+u.Help))
	}
	fmt.Fprintf(b,
		"\t)\n\tcase $words[2] in\n\t%s) _files -/ ;;\n\tcompletion) compadd bash zsh fish ;;\n\thealth) ;;\n",
		strings.Join(onDirectories(), "|"))
	b.WriteString("\t*)\n\t\t(( CURRENT == 2 )) && [[ $PREFIX != -* ]] && _describe tool tools\n\t\t_arguments -S $options '*:configuration file:_files'\n\t\t;;\n\tesac\n}\n_keyp \"$@\"\n")
}

func fishCompletion(b *strings.Builder) {
	none := "not __fish_seen_subcommand_from " + strings.Join(subcommandNames(), " ")
	b.WriteString("# fish completion for keyp\ncomplete -c keyp -s h -l help -d 'Print the usage'\ncomplete -c keyp -s v -l version -d 'Print the version'\n")
	for _, u := range subcommands() {
		fmt.Fprintf(b, "complete -c keyp -n __fish_use_subcommand -a %s -d %s\n", u.Name,
			fishQuoted(u.Help))
	}
	fmt.Fprintf(b,
		"complete -c keyp -n '__fish_seen_subcommand_from %s' -x -a '(__fish_complete_directories)'\n",
		strings.Join(onDirectories(), " "))
	b.WriteString(
		"complete -c keyp -n '__fish_seen_subcommand_from completion' -x -a 'bash zsh fish'\n")
	for o := range effective() {
		values := o.argument("-x", "-r", "-x -a '(__fish_complete_directories)'", "-x -a '%s'")
		fmt.Fprintf(b, "complete -c keyp -n %s -l %s %s -d %s\n", fishQuoted(none), o.name, values,
			fishQuoted(o.help))
	}
}

// fishQuoted returns the text in single quotes for fish.
func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
