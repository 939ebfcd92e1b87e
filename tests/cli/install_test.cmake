# cmake -DBUILD= -DVERSION= -DPREFIX= -P: installs BUILD into an empty folder, runs what is there and reads it.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)

execute_process(COMMAND ${PREFIX}/bin/gradmill version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
if(NOT version MATCHES "^gradmill ${VERSION}")
  message(FATAL_ERROR "the installed program is not version ${VERSION}: ${version}")
endif()

function(expect_text file text)
  file(READ ${PREFIX}/share/${file} content)
  string(FIND "${content}" "${text}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${PREFIX}/share/${file} lacks '${text}'")
  endif()
endfunction()
expect_text(man/man1/gradmill.1 ".TH GRADMILL 1")
expect_text(man/man1/gradmill.1 ".SS doctor")
expect_text(bash-completion/completions/gradmill "complete -F _gradmill gradmill")
expect_text(zsh/site-functions/_gradmill "#compdef gradmill")
expect_text(fish/vendor_completions.d/gradmill.fish "__fish_seen_subcommand_from plan' -l fits -d")

# Completes a command and a setting as bash would.
execute_process(COMMAND bash -c [[
    source "$0"
    COMP_WORDS=(gradmill doc) COMP_CWORD=1; _gradmill; echo "${COMPREPLY[@]}"
    COMP_WORDS=(gradmill train training.se) COMP_CWORD=2; compopt() { :; }; _gradmill; echo "${COMPREPLY[@]}"]]
    ${PREFIX}/share/bash-completion/completions/gradmill
  OUTPUT_VARIABLE completed COMMAND_ERROR_IS_FATAL ANY)
if(NOT completed STREQUAL "doctor\ntraining.seed=\n")
  message(FATAL_ERROR "bash completes 'doc' and 'training.se' as: ${completed}")
endif()
