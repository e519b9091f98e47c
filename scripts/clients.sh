# Installs clients in other languages for the tests. Sourced by scripts. The files of each client are in $sources; it is
# installed into a folder of $installed. A client is installed again only if one of its inputs has changed. If it cannot be
# installed on this machine, the script prints the reason and stores it for the test, which prints it and passes.
# shellcheck shell=bash disable=SC2154

# install CLIENT VERSION FILE…: VERSION is a command that prints the version of the installing tool, FILEs are its inputs. A
# function with the name of the client installs it into the current folder.
install() {
    local client=$1 version=$2 folder=$installed/$1 log=$installed/$1.log made_from
    shift 2
    mkdir -p "$folder"
    # Unquoted on purpose: a command and its argument.
    # shellcheck disable=SC2086
    if ! made_from=$($version 2>&1 && cd "$sources/$client" && sha256sum "$@"); then
        leave_out "$client" "${version%% *} does not run here"
    elif [[ $(cat "$folder/ready" 2>/dev/null) != "$made_from" ]]; then
        echo "setup: installing $client for the tests"
        rm -rf "$folder"
        mkdir "$folder"
        if (cd "$folder" && "$client") >"$log" 2>&1; then
            echo "$made_from" >"$folder/ready"
        else
            leave_out "$client" "it cannot be installed: $(tail -n 1 "$log")"
        fi
    fi
}

leave_out() {
    rm -f "$installed/$1/ready"
    echo "$2" >"$installed/$1/missing"
    echo "setup: the tests skip $1: $2" >&2
}
