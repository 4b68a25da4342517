//! The shell scripts that do the work inside a container. POSIX `sh` with `stat`, `readlink`, `find`, `mkdir`, `mv`,
//! `chmod`, `head`, `dd`, `cat`, `rm`, as BusyBox and GNU have them; arguments come as `$1`, `$2` …, never as text of
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

/// `$1` directory, `$2` name, `$3` how many bytes to leave out, `$4` how many to read. `dd` seeks there, however far it is
/// (the `tail` of BusyBox cannot). Size and mode in one line of standard
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
[ -r "./$2" ] || { echo 'it may not be read' >&2; exit 45; }
exec 3<"./$2" || exit 45
[ "$(readlink /proc/self/fd/3; echo .)" = "$1/$2
." ] || exit 41
s=$(stat -L -c '%s %a' /proc/self/fd/3) || exit 45
echo "$s" >&2
[ "$3" -lt "${s% *}" ] || exit 0
[ "$3" = 0 ] || dd bs=1 "skip=$3" count=0 <&3 2>/dev/null || exit 45
exec head -c "$4" <&3"#;

/// `$1` mode, `$2` name, `$3` temporary name, `$4` size, then the components of the directory. The contents come on
/// standard input. The file is there whole, or as it was before.
pub const WRITE: &str = r#"m=$1 n=$2 t=$3 s=$4 w=/workspace
shift 4
cd -P "$w" || exit 46
for c; do
  w=$w/$c
  [ -L "./$c" ] && exit 41
  [ -d "./$c" ] || mkdir "./$c" || { [ -e "./$c" ] && exit 46; exit 45; }
  cd -P "./$c" 2>/dev/null || exit 46
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

/// `$1` a mark, `$2` directory, `$3` program, then names of variables, `--`, and the program's arguments. Says on standard
/// error what it comes to, each time with the mark: that the command could not be started and why; that it started
/// (`start`); that it ended, with its exit code (`=0`), since this shell may be killed by what the command left, or find no
/// place for another process; and that everything of its session, every process with its environment, and every orphan that
/// hides its environment was killed (`end`), without which something may be left. The program is looked up here, since a
/// shell would take its own built-in of that name; `exec` does not.
///
/// The values of the variables come in `zx_0`, `zx_1` … in the order of the names: under their own names they would
/// change this shell before it did anything (`SHELLOPTS` and `PS4` even run text). A shell refuses to set some of its
/// own (`UID` in bash); the command then has what the shell has. All names here begin with `zx_`, because one that is in
/// the container's environment would go on to the command with the value that it has here.
///
/// What goes away while a round looks may have left a child that was not there yet when the round began, so there is
/// another round; but other commands start and end processes all the time, and this one must not wait for them. Three
/// rounds that saw nothing else leave the rest to whoever can see the container from outside. For the same reason a round
/// starts as few processes as it can.
pub const RUN: &str = r#"zx_n=$1 zx_d=$2 zx_c=$3
shift 3
zx_say() { printf '%s' "$zx_n:$1;" >&2; }
cd -P -- "$zx_d" 2>/dev/null && [ "$PWD" = "$zx_d" ] || { zx_say cwd; exit 126; }
unset OLDPWD
(
  zx_i=0 zx_m=$ZHIVEX_EXEC_ID
  while [ "$1" != -- ]; do
    eval "command export $1=\"\$zx_$zx_i\"" 2>/dev/null
    unset "zx_$zx_i"
    zx_i=$((zx_i+1))
    shift
  done
  shift
  export ZHIVEX_EXEC_ID="$zx_m"
  case $zx_c in
  */*) zx_p=$zx_c ;;
  *)
    zx_p= zx_o=$IFS IFS=:
    set -f
    for zx_e in $PATH; do
      [ -f "$zx_e/$zx_c" ] && [ -z "$zx_p" ] && zx_p=$zx_e/$zx_c
      [ -f "$zx_e/$zx_c" ] && [ -x "$zx_e/$zx_c" ] && { zx_p=$zx_e/$zx_c; break; }
    done
    set +f
    IFS=$zx_o ;;
  esac
  [ -n "$zx_p" ] && [ -f "$zx_p" ] || { zx_say missing; exit 127; }
  [ -x "$zx_p" ] || { zx_say denied; exit 126; }
  zx_say start
  exec "$zx_p" "$@"
)
zx_x=$? zx_r=0 zx_u=0
zx_say "=$zx_x"
exec 9>&2 2>/dev/null
while [ "$zx_r" -lt 200 ] && [ "$zx_u" -lt 3 ]; do
  zx_r=$((zx_r+1)) zx_f= zx_w= zx_a=
  for zx_e in /proc/[0-9]*; do zx_a="$zx_a $zx_e/environ"; done
  zx_t=$(grep -zsHF -e ZHIVEX_EXEC_ID= $zx_a | tr '\000' '\n')
  for zx_e in $zx_a; do
    zx_q=${zx_e#/proc/} zx_q=${zx_q%/environ} zx_l=
    case $zx_q in 1|$$) continue ;; esac
    while read -r zx_k; do zx_l="$zx_l $zx_k"; done <"/proc/$zx_q/stat"
    zx_l=${zx_l##*) }
    set -- $zx_l
    [ -n "$4" ] || { zx_w=1; continue; }
    [ "$4" != 1 ] || continue
    if [ "$4" != "$$" ]; then
      case $zx_t in
      *"$zx_e:ZHIVEX_EXEC_ID=$ZHIVEX_EXEC_ID"*) ;;
      *"$zx_e:ZHIVEX_EXEC_ID="*) continue ;;
      *)
        [ "$2" = 1 ] || continue
        # In the session of another command that still runs: that one's to end.
        [ "$4" = "$zx_q" ] || [ ! -e "/proc/$4" ] || continue
        # In the middle of an execve(2) a process has no environment for a moment.
        grep -zsqF -e ZHIVEX_EXEC_ID= "$zx_e" && { zx_f=1; continue; } ;;
      esac
    fi
    zx_f=1
    [ "$3" = "$$" ] || kill -9 "-$3"
    kill -9 "$zx_q"
  done
  [ -n "$zx_f$zx_w" ] || { zx_say end 2>&9; exit "$zx_x"; }
  if [ -n "$zx_f" ]; then zx_u=0; else zx_u=$((zx_u+1)); fi
done
exit "$zx_x""#;

/// Kills every process of the container but process 1, which the kernel excepts, and this shell.
pub const KILL_ALL: &str = "kill -9 -1";
