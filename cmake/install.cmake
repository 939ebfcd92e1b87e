# What `cmake --install build --prefix X` puts there: the program, its manual page and completions for shells. The program
# itself writes the last two, so that they always show its own commands and settings.
include(GNUInstallDirs)
install(TARGETS gradmill_cli RUNTIME)

function(gradmill_install_output destination name)
  set(file ${PROJECT_BINARY_DIR}/installed/${name})
  install(CODE "
    file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/installed\")
    execute_process(COMMAND \"$<TARGET_FILE:gradmill_cli>\" ${ARGN} OUTPUT_FILE \"${file}\" COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${file} DESTINATION ${destination})
endfunction()
gradmill_install_output(${CMAKE_INSTALL_MANDIR}/man1 gradmill.1 man)
gradmill_install_output(${CMAKE_INSTALL_DATADIR}/bash-completion/completions gradmill completion bash)
gradmill_install_output(${CMAKE_INSTALL_DATADIR}/zsh/site-functions _gradmill completion zsh)
gradmill_install_output(${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d gradmill.fish completion fish)
