//! The shell scripts that do the work inside a container. POSIX `sh` with `stat`, `readlink`, `find`, `mkdir`, `mv`,
//! `chmod`, `head`, `tail`, `cat`, `rm`, as BusyBox and GNU have them; arguments come as `$1`, `$2` …, never as text of
//! the script.
//!
//! A directory is entered with `cd -P` and its physical path compared with the one asked for: what follows works on
//! that very directory, whatever links are swapped meanwhile. An opened file proves its path through `/proc/self/fd`.
//! Where a directory cannot be entered, a link on the way is told before what lies behind it is looked for: what is
//! outside of the workspace is not to be asked about.

/// Exit codes of the file scripts. 45, and those of the programs that they run: the system refused; standard error says
/// why.
pub mod code {
  /// The directory is not there.
  pub const NO_PARENT: i64 = 40;
  /// A symbolic link on the way, or in place of the file.
  pub const LINK: i64 = 41;
  /// The file is not there.
  pub const MISSING: i64 = 42;
  /// It is a directory.
  pub const DIRECTORY: i64 = 43;
  /// It is a pipe, a socket or a device.
  pub const SPECIAL: i64 = 44;
  /// Something on the way is no directory.
  pub const NOT_A_DIRECTORY: i64 = 46;
  /// Fewer bytes arrived than were sent.
  pub const CUT: i64 = 47;
}

/// `$1` directory, `$2` name, `$3` first byte counted from 1, `$4` how many. Size and mode in one line of standard
/// error, the bytes on standard output.
pub const READ: &str = r#"cd -P -- "$1" 2>/dev/null || {
  set -f; p= IFS=/
  for c in $1; do [ -z "$c" ] || p=$p/$c; [ -L "$p" ] && exit 41; done
  [ -e "$1" ] && exit 46; exit 40
}
[ "$PWD" = "$1" ] || exit 41
[ -L "./$2" ] && exit 41
[ -e "./$2" ] || exit 42
[ -d "./$2" ] && exit 43
[ -f "./$2" ] || exit 44
[ -r "./$2" ] || exit 45
exec 3<"./$2" || exit 45
[ "$(readlink /proc/self/fd/3)" = "$1/$2" ] || exit 41
stat -L -c '%s %a' /proc/self/fd/3 >&2 || exit 45
if [ "$3" = 1 ]; then exec head -c "$4" <&3; fi
tail -c "+$3" <&3 | head -c "$4""#;

/// `$1` mode, `$2` name, `$3` temporary name, `$4` size, then the components of the directory. The contents come on
/// standard input. The file is there whole, or as it was before.
pub const WRITE: &str = r#"m=$1 n=$2 t=$3 s=$4 w=/workspace
shift 4
cd -P "$w" || exit 40
for c; do
  w=$w/$c
  [ -L "./$c" ] && exit 41
  [ -d "./$c" ] || mkdir "./$c" || { [ -e "./$c" ] && exit 46; exit 45; }
  cd -P "./$c" || exit 45
  [ "$PWD" = "$w" ] || exit 41
done
[ -L "./$n" ] && exit 41
[ -d "./$n" ] && exit 43
[ -e "./$n" ] && [ ! -f "./$n" ] && exit 44
umask 077
set -C
cat >"./$t" || { rm -f "./$t"; exit 45; }
[ "$(stat -c %s "./$t")" = "$s" ] || { rm -f "./$t"; exit 47; }
chmod "$m" "./$t" && mv -f -T "./$t" "./$n" || { rm -f "./$t"; exit 45; }"#;

/// `$1` temporary name, then the components of the directory: removes what a write that was stopped left.
pub const DISCARD: &str = r#"t=$1 w=/workspace
shift
cd -P "$w" || exit 0
for c; do
  w=$w/$c
  cd -P "./$c" 2>/dev/null || exit 0
  [ "$PWD" = "$w" ] || exit 0
done
rm -f "./$t""#;

/// `$1` directory, `$2` depth, `$3` a mark no name can have: for each entry the mark, its type and mode in hexadecimal,
/// its size, its name. Links are listed, never followed.
pub const LIST: &str = r#"cd -P -- "$1" 2>/dev/null || {
  set -f; p= IFS=/
  for c in $1; do [ -z "$c" ] || p=$p/$c; [ -L "$p" ] && exit 41; done
  [ -e "$1" ] && exit 46; exit 40
}
[ "$PWD" = "$1" ] || exit 41
exec find . -mindepth 1 -maxdepth "$2" -exec stat -c "$3%f %s %n" '{}' +"#;

/// `$1` a mark, `$2` directory, then program and arguments. Says on standard error what it comes to, each time with the
/// mark: that the command could not be started and why; that it started; that it ended and everything of its session,
/// every process with its environment, and every orphan that hides its environment was killed. The program is looked up here, since a shell would take its own
/// built-in of that name; `exec` does not.
pub const RUN: &str = r#"n=$1 d=$2 c=$3
shift 3
say() { printf '%s' "$n:$1;" >&2; }
cd -P -- "$d" 2>/dev/null && [ "$PWD" = "$d" ] || { say cwd; exit 126; }
case $c in
*/*) p=$c ;;
*)
  p= o=$IFS IFS=:
  for e in $PATH; do
    [ -f "$e/$c" ] && [ -z "$p" ] && p=$e/$c
    [ -f "$e/$c" ] && [ -x "$e/$c" ] && { p=$e/$c; break; }
  done
  IFS=$o ;;
esac
[ -n "$p" ] && [ -f "$p" ] || { say missing; exit 127; }
[ -x "$p" ] || { say denied; exit 126; }
unset OLDPWD
say start
(exec "$p" "$@")
x=$? r=0
while [ "$r" -lt 200 ]; do
  r=$((r+1)) f=
  for e in /proc/[0-9]*/stat; do
    q=${e#/proc/} q=${q%/stat} l=
    case $q in 1|$$) continue ;; esac
    while read -r k; do l="$l $k"; done <"$e"
    l=${l##*) }
    set -- $l
    [ -n "$4" ] && [ "$4" != 1 ] || continue
    v=/proc/$q/environ
    if [ "$4" != "$$" ] && ! grep -zqsF -e "ZHIVEX_EXEC_ID=$ZHIVEX_EXEC_ID" "$v"; then
      [ "$2" = 1 ] && ! grep -zqsF -e ZHIVEX_EXEC_ID= "$v" || continue
    fi
    f=1
    [ "$3" = "$$" ] || kill -9 "-$3"
    kill -9 "$q"
  done 2>/dev/null
  [ -n "$f" ] || { say end; break; }
done
exit "$x""#;

/// Kills every process of the container but process 1, which the kernel excepts, and this shell.
pub const KILL_ALL: &str = "kill -9 -1";
